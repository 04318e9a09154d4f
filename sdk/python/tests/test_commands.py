"""Commands: large output and input, limits, files that they leave."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from stead import AsyncSandbox, Client, CommandFailed, Sandbox


def test_all_output_reaches_the_callbacks(box: Sandbox) -> None:
    counted = {"lines": 0, "bytes": 0}

    def count(line: str) -> None:
        counted["lines"] += 1
        counted["bytes"] += len(line) + 1

    result = box.commands.run("seq 1 600000", on_stdout=count)
    expected = "".join(f"{number}\n" for number in range(1, 600_001))
    assert counted == {"lines": 600_000, "bytes": len(expected)}
    assert result.stdout == expected and not result.truncated


def test_output_without_a_callback_is_whole_up_to_a_limit(box: Sandbox) -> None:
    result = box.commands.run("seq 1 60000")
    assert result.stdout == "".join(f"{number}\n" for number in range(1, 60_001))
    assert not result.truncated
    long = box.commands.run("seq 1 600000")
    assert long.truncated and long.stdout.startswith("1\n2\n") and long.stdout.endswith("600000\n")


def test_characters_are_not_cut(box: Sandbox) -> None:
    seen = []
    command = "printf 'gr\\xc3'; sleep 0.2; printf '\\xbc\\xc3\\x9fe\\u2028x'"
    result = box.commands.run(command, on_stdout=seen.append)
    assert seen == ["grüße\u2028x"] and result.stdout == "grüße\u2028x"


def test_large_input_and_output_do_not_block_each_other(box: Sandbox) -> None:
    data = bytes(range(256)) * 16_384  # 4 MiB
    result = box.commands.run("tee copy.bin | sha256sum", stdin=data)
    assert box.files.read_bytes("copy.bin") == data
    assert box.commands.run("sha256sum < copy.bin").stdout == result.stdout
    text = "line of text\n" * 200_000
    assert box.commands.run("cat", stdin=text).stdout == text


def test_a_command_need_not_read_its_input(box: Sandbox) -> None:
    assert box.commands.run("head -c 1 > /dev/null", stdin=b"x" * 4_000_000).exit_code == 0


def test_a_timeout_ends_every_process(box: Sandbox) -> None:
    result = box.commands.run("(sleep 300 &) ; sleep 300", timeout=1)
    assert result.timed_out and result.exit_code == 124
    assert box.commands.run("pgrep -x sleep").exit_code == 1
    with pytest.raises(CommandFailed) as raised:
        box.commands.run("sleep 300", timeout=1, on_stdout=print, check=True)
    assert raised.value.code == "timed_out" and raised.value.result.timed_out


def test_check_raises_with_the_output(box: Sandbox) -> None:
    with pytest.raises(CommandFailed) as raised:
        box.commands.run("echo broken >&2; exit 3", check=True)
    assert raised.value.result.exit_code == 3 and "broken" in str(raised.value)


def test_environment_and_directory(box: Sandbox) -> None:
    box.files.mkdir("sub")
    result = box.commands.run(["sh", "-c", "pwd; echo $NAME"], cwd="sub", env={"NAME": "value"})
    assert result.stdout == "/workspace/sub\nvalue\n"


def test_a_missing_program_has_the_code_of_shells(box: Sandbox) -> None:
    assert box.commands.run(["no-such-program"]).exit_code == 127


def test_rewind_leads_to_each_command(box: Sandbox) -> None:
    results = [box.commands.run(f"echo {number} > n.txt") for number in range(4)]
    for result in (results[2], results[0], results[3]):
        rewound = box.rewind(result.seq)
        assert box.files.read("n.txt") == f"{results.index(result)}\n"
    box.rewind(rewound["undo"])
    assert box.files.read("n.txt") == "0\n"


def test_many_sandboxes_at_once(client: Client) -> None:
    count = 24
    gate = threading.Barrier(count)

    def work(number: int) -> str:
        gate.wait(30)
        with Sandbox.create("many", client=client) as box:
            box.files.write("n.txt", str(number))
            return box.files.read("n.txt")

    client.agent_types.put("many", workspace={"enabled": True, "provider": "memory", "workspace_policy": "empty"})
    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(work, range(count))) == [str(number) for number in range(count)]


async def test_callbacks_may_be_coroutines(async_box: AsyncSandbox) -> None:
    seen = []

    async def tell(line: str) -> None:
        seen.append(line)

    await async_box.commands.run("echo a; echo b", on_stdout=tell)
    assert seen == ["a", "b"]


def test_a_failing_callback_ends_the_command(box: Sandbox) -> None:
    def fail(line: str) -> None:
        raise ValueError(line)

    with pytest.raises(ValueError):
        box.commands.run("echo started; sleep 300", on_stdout=fail)
    assert [one["killed"] for one in box.commands.list()] == [True]
