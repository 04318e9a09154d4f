"""A sandbox: a session of the server with its own files and its own box."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Union

from .. import _archive, _program, _tools
from ..api_types import (
    Blame,
    Diff,
    Event,
    Moment,
    Prompt,
    Replay,
    Restored,
    Rewound,
    Session,
    SessionFold,
    Snapshot,
    ToolAnswer,
)
from ..errors import NotFound, ProvisioningFailed, SteadError, VerificationFailed
from .client import AsyncClient, shared
from .commands import AsyncCommands, EnvValue
from .files import AsyncFiles
from .http import segment
from .loop import blocking
from .network import AsyncNetwork
from .ports import AsyncPorts
from .runs import AsyncRuns

LocalPath = Union[str, "os.PathLike[str]"]

_BASE = "base"
_WAIT = 60
_SETTLED = ("active", "paused", "failed", "closed", "closing")


class AsyncSandbox:
    """An isolated workspace with a box: commands, files, checkpoints, forks and a journal.

    >>> async with await AsyncSandbox.create() as box:
    ...     print((await box.commands.run("echo hello")).stdout, end="")
    hello
    """

    def __init__(self, client: AsyncClient, session: Session) -> None:
        self.client = client
        self.id = session["id"]
        #: The session as the server last described it. `refresh` reads it again.
        self.session = session
        self.commands = AsyncCommands(client.http, self.id)
        self.files = AsyncFiles(client.http, self.id)
        self.runs = AsyncRuns(client.http, self.id)
        self.ports = AsyncPorts(client.http, self.id)
        self.network = AsyncNetwork(client.http, self.id)
        self._http = client.http
        self._path = f"/sessions/{segment(self.id)}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.session['status']}>"

    # Creation and life

    @classmethod
    async def create(
        cls,
        agent_type: Optional[str] = None,
        *,
        repo: Optional[str] = None,
        branch: Optional[str] = None,
        base_branch: Optional[str] = None,
        pull_request: Optional[int] = None,
        dir: Optional[LocalPath] = None,
        exclude: Sequence[str] = (),
        bundle: Optional[LocalPath] = None,
        image: Optional[str] = None,
        env: Optional[Mapping[str, EnvValue]] = None,
        network: Optional[Mapping[str, Any]] = None,
        content: Optional[Mapping[str, Any]] = None,
        prompt: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
        project: Optional[str] = None,
        timeout: Optional[int] = None,
        client: Optional[AsyncClient] = None,
    ) -> "AsyncSandbox":
        """Makes a sandbox and waits until it is ready.

        Its files are a checkout (`repo`, at `branch`), a copy of a directory (`dir` without
        `exclude`), an archive (`bundle`), or empty. A checkout for a pull request also has the
        branch that it merges into (`base_branch`). `image` is an imported image for the box.
        A value of `env` is a text, or `{"secret": NAME}` for the placeholder of a secret. `network` has the rules of what it may reach; without it there is no network. The server
        closes the sandbox `timeout` seconds from now. Without `agent_type` it is of the type `base`,
        which has every tool and keeps checkpoints.

        >>> box = await AsyncSandbox.create(env={"MODE": "test"}, metadata={"team": "a"}, timeout=600)
        >>> (await box.commands.run("echo $MODE")).stdout
        'test\\n'
        >>> await box.close()
        """
        client = client or shared()
        sources = {"repo": repo, "dir": dir, "bundle": bundle}
        given = [name for name, value in sources.items() if value is not None]
        if len(given) > 1:
            raise SteadError(f"{' and '.join(given)} exclude each other", code="invalid_request")
        if image is not None and agent_type is not None:
            raise SteadError("an agent type has its own image: give image or agent_type", code="invalid_request")
        policy: Any = None
        if repo is not None:
            policy = {"type": "git", "url": repo, **({} if branch is None else {"ref": branch})}
        elif dir is not None:
            policy = await _uploaded(client, Path(dir), list(exclude))
        elif bundle is not None:
            policy = {"type": "bundle", "source": {"blob": await client.upload_blob(bundle)}}
        context = _present(base_branch=base_branch, pull_request_number=pull_request)
        if context:
            context = _present(repository_url=repo, branch=branch, **context)
        task = _present(
            workspace_policy=policy,
            context=context or None,
            env=None if env is None else dict(env),
            network=None if network is None else dict(network),
            prompt=prompt,
        )
        body = _present(
            agent_type=agent_type or _base_name(image),
            project=project,
            task=task or None,
            content=None if content is None else dict(content),
            metadata=None if metadata is None else dict(metadata),
        )
        box = cls(client, await _create(client, body, agent_type is None, image))
        await box._ready()
        if timeout is not None:
            await box.extend(timeout)
        return box

    @classmethod
    async def connect(cls, id: str, *, client: Optional[AsyncClient] = None) -> "AsyncSandbox":
        """Returns a sandbox that exists.

        >>> again = await AsyncSandbox.connect(box.id)
        >>> again.id == box.id
        True
        """
        client = client or shared()
        session: Session = await client.http.json("GET", f"/sessions/{segment(id)}")
        return cls(client, session)

    @classmethod
    async def list(
        cls,
        *,
        status: Optional[str] = None,
        metadata: Optional[Mapping[str, str]] = None,
        agent_type: Optional[str] = None,
        project: Optional[str] = None,
        owner: Optional[str] = None,
        client: Optional[AsyncClient] = None,
    ) -> List["AsyncSandbox"]:
        """Returns the sandboxes that match.

        >>> await box.set_metadata({"job": "doc-7"})
        >>> [found.id == box.id for found in await AsyncSandbox.list(status="active", metadata={"job": "doc-7"})]
        [True]
        """
        client = client or shared()
        params = _present(status=status, agent_type=agent_type, project=project, owner=owner)
        params.update({f"metadata.{key}": value for key, value in (metadata or {}).items()})
        return [cls(client, session) for session in await client.http.pages("/sessions", params)]

    async def __aenter__(self) -> "AsyncSandbox":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the sandbox and removes its box and files. The journal stays. Closing it again is
        no error.

        >>> other = await AsyncSandbox.create()
        >>> await other.close()
        >>> (await other.refresh())["status"] in ("closing", "closed")
        True
        """
        await self._http.request("DELETE", self._path)

    async def refresh(self) -> Session:
        """Reads the session again.

        >>> (await box.refresh())["status"]
        'active'
        """
        self.session = await self._http.json("GET", self._path)
        return self.session

    async def extend(self, seconds: int) -> Session:
        """Lets the server close the sandbox `seconds` from now.

        >>> session = await box.extend(3600)
        >>> session["expires_at"] > session["created_at"]
        True
        """
        return await self._update({"ttl_seconds": seconds})

    async def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Merges an object into the metadata. A value of `None` removes its key.

        >>> await box.set_metadata({"ticket": "T-1"})
        >>> box.session["metadata"]["ticket"]
        'T-1'
        """
        await self._update({"metadata": dict(metadata)})

    async def _update(self, body: Dict[str, Any]) -> Session:
        self.session = await self._http.json("PATCH", self._path, body=body)
        return self.session

    async def pause(self, mode: str = "stop") -> None:
        """Pauses the sandbox. `stop` ends its processes and keeps the files; `freeze` keeps both.

        >>> await box.pause()
        >>> box.session["status"]
        'paused'
        >>> await box.resume()
        """
        self.session = await self._http.json("POST", f"{self._path}/pause", body={"mode": mode}, patience=_WAIT)
        await self._settle("paused")

    async def resume(self) -> None:
        """Resumes a paused sandbox.

        >>> await box.pause("freeze")
        >>> await box.resume()
        >>> box.session["status"]
        'active'
        """
        self.session = await self._http.json("POST", f"{self._path}/resume", patience=_WAIT)
        await self._settle("active")

    async def _settle(self, status: str) -> None:
        if self.session["status"] != status:
            self.session = await self._http.json("GET", self._path, params={"wait": _WAIT}, patience=_WAIT)
        if self.session["status"] != status:
            raise SteadError(f"the sandbox is {self.session['status']}", code="session_not_active")

    async def _ready(self) -> None:
        """Waits for the workspace. A sandbox without one is closed, and the reason is raised."""
        for _ in range(10):
            if self.session["status"] in _SETTLED:
                break
            waited: Session = await self._http.json("GET", self._path, params={"wait": _WAIT}, patience=_WAIT)
            self.session = waited
        if self.session["status"] == "active" and not self.session["degraded"]:
            return
        notice = self.session["failure"] or next(iter(self.session["warnings"]), None)
        message = notice["message"] if notice else f"it is {self.session['status']}"
        await self.close()
        raise ProvisioningFailed(
            f"the workspace could not be made: {message}",
            code=notice["code"] if notice else "not_ready",
            hint="`stead doctor` reports what works on the machine of the server",
        )

    # Files in time

    async def snapshot(self, name: Optional[str] = None) -> Snapshot:
        """Keeps the files as they are now.

        >>> _ = await box.files.write("a.txt", "one")
        >>> kept = await box.snapshot("before")
        >>> _ = await box.files.write("a.txt", "two")
        >>> _ = await box.restore(kept["id"])
        >>> await box.files.read("a.txt")
        'one'
        """
        snapshot: Snapshot = await self._http.json(
            "POST", f"{self._path}/snapshots", body=_present(name=name), creates=True, patience=600
        )
        return snapshot

    async def snapshots(self) -> List[Snapshot]:
        """Returns the snapshots.

        >>> kept = await box.snapshot()
        >>> [one["id"] for one in await box.snapshots()] == [kept["id"]]
        True
        """
        found: List[Snapshot] = await self._http.pages(f"{self._path}/snapshots")
        return found

    async def restore(self, snapshot: str) -> Restored:
        """Restores the files of a snapshot, by its id.

        >>> kept = await box.snapshot()
        >>> (await box.restore(kept["id"]))["id"] == kept["id"]
        True
        """
        path = f"{self._path}/snapshots/{segment(snapshot)}/restore"
        restored: Restored = await self._http.json("POST", path, patience=600)
        return restored

    async def fork(self, count: int = 1, *, at: Optional[int] = None) -> "AsyncForks":
        """Makes sandboxes that start with a copy of the files, as they are now or as they were at
        event `at`. The result is a list, and a context manager that closes all of them.

        >>> _ = await box.files.write("a.txt", "shared")
        >>> async with await box.fork(2) as forks:
        ...     _ = await forks[0].files.write("a.txt", "changed")
        ...     print(await forks[1].files.read("a.txt"), await box.files.read("a.txt"))
        shared shared
        """
        body = _present(isolation="full", count=count, at=at)
        cloned = await self._http.json(
            "POST", f"{self._path}/clone", body=body, params={"wait": _WAIT}, creates=True, patience=_WAIT + 300
        )
        forks = AsyncForks(type(self)(self.client, session) for session in cloned["items"])
        for fork in forks:
            await fork._ready()
        return forks

    async def checkpoints(self) -> List[Moment]:
        """Returns the states that `rewind` can restore, oldest first.

        >>> result = await box.commands.run("echo 1 > a.txt")
        >>> (await box.checkpoints())[-1]["seq"] == result.seq
        True
        """
        listing = await self._http.json("GET", f"{self._path}/rewind")
        found: List[Moment] = listing["items"]
        return found

    async def rewind(self, seq: int) -> Rewound:
        """Restores the files as they were at event `seq`, such as the `seq` of a command's result.
        `undo` of the answer is where a second rewind leads back.

        >>> result = await box.commands.run("echo good > a.txt")
        >>> _ = await box.commands.run("rm a.txt")
        >>> _ = await box.rewind(result.seq)
        >>> await box.files.read("a.txt")
        'good\\n'
        """
        rewound: Rewound = await self._http.json("POST", f"{self._path}/rewind", body={"to": seq}, patience=600)
        return rewound

    async def blame(self, path: str) -> Blame:
        """Returns the call that last wrote a file.

        >>> _ = await box.commands.run("echo 1 > a.txt")
        >>> (await box.blame("a.txt"))["last"]["by"]["name"]
        '/bin/bash -c echo 1 > a.txt'
        """
        from .files import relative

        blame: Blame = await self._http.json("GET", f"{self._path}/blame/{relative(path)}")
        return blame

    async def diff(self, *, all: bool = False) -> str:
        """Returns the changes since the start as a patch for `git apply`. `all` includes files that
        `.gitignore` matches.

        >>> _ = await box.files.write("a.txt", "one\\n")
        >>> print(await box.diff(), end="")
        diff --git a/a.txt b/a.txt
        ...
        +one
        """
        params = {"format": "patch", "all": all or None}
        return (await self._http.request("GET", f"{self._path}/diff", params=params, patience=600)).text

    async def changes(self, *, all: bool = False) -> Diff:
        """Returns the changed files with the patch and with what a patch cannot carry.

        >>> _ = await box.files.write("a.txt", "one")
        >>> (await box.changes())["changed"]
        ['a.txt']
        """
        diff: Diff = await self._http.json("GET", f"{self._path}/diff", params={"all": all or None}, patience=600)
        return diff

    async def apply(self, directory: LocalPath, *, check: bool = False, all: bool = False) -> List[str]:
        """Brings the changes to a directory of this machine, all or nothing, and returns the changed
        paths. With `check` it only tries. It runs `stead apply`, which starts no other program and
        writes through no symbolic link.

        >>> (tmp / "project").mkdir()
        >>> _ = await box.files.write("result.txt", "done")
        >>> await box.apply(tmp / "project")
        ['result.txt']
        >>> (tmp / "project/result.txt").read_text()
        'done'
        """
        flags = (["--check"] if check else []) + (["--all"] if all else [])
        command = ["apply", self.id, "--to", str(directory), *flags]
        answer = await blocking(_program.run, await self._http.endpoint(), command, "not_applied")
        changed: List[str] = answer["changed"]
        return changed

    async def export(self, target: LocalPath, *, format: str = "tar") -> None:
        """Writes all files as a tar, or the changes as a `patch`, to a local file.

        >>> _ = await box.files.write("a.txt", "one")
        >>> await box.export(tmp / "files.tar")
        >>> (tmp / "files.tar").stat().st_size > 0
        True
        """
        path = f"{self._path}/export"
        with open(target, "wb") as file:
            async with self._http.stream(path, params={"format": format}) as response:
                async for chunk in response.aiter_bytes():
                    file.write(chunk)

    # Ports

    async def host(self, port: int, path: str = "/") -> str:
        """Returns a link that opens a port of the box in a browser. It works once, within a minute.
        `ports` has the other ways to a server in the box.

        >>> (await box.host(8000)).startswith("http://8000-ses-")
        True
        """
        return await self.ports.open(port, path)

    # The journal

    async def events(self, after: int = 0, *, follow: bool = True) -> AsyncIterator[Event]:
        """Yields the events of the journal behind `after`, and waits for new ones until the sandbox
        is closed. It continues after a lost connection. Without `follow` it ends at the last one.

        >>> [event["type"] async for event in box.events(follow=False)][0]
        'SessionCreated'
        """
        if not follow:
            for event in await self._http.pages(f"{self._path}/events", {"after": after or None}):
                yield event
            return
        async for sent in self._http.events(f"{self._path}/events", after):
            found: Event = json.loads(sent.data)
            yield found
            if found["type"] == "SessionClosed":
                return

    async def state(self, at: Optional[int] = None) -> SessionFold:
        """Returns the state that the journal folds to, now or right after event `at`.

        >>> (await box.state(at=1))["seq"]
        1
        """
        state: SessionFold = await self._http.json("GET", f"{self._path}/state", params={"at": at})
        return state

    async def replay(self) -> Replay:
        """Folds the journal again and compares the result with the live state.

        >>> (await box.replay())["identical"]
        True
        """
        replay: Replay = await self._http.json("GET", f"{self._path}/replay", patience=600)
        return replay

    async def verify(self) -> str:
        """Returns the hash of the state, or raises `VerificationFailed` if a replay of the journal
        gives another state. `stead verify` checks the stored bytes on the server.

        >>> (await box.verify()).startswith("blake3:")
        True
        """
        replay = await self.replay()
        difference = replay["difference"]
        if difference is not None:
            message = f"the replay differs at event {difference['seq']}: {difference['what']}"
            raise VerificationFailed(message, code="replay_differs")
        return replay["state_hash"]

    # Content, prompts and tools

    async def sync_content(self, workspace: str, version: Optional[int] = None) -> int:
        """Stages a version of content and returns the sequence number of the event.

        >>> files = {"agent.workspace.json": '{"schema_version": 1}'}
        >>> _ = await client.content.push("bot", files)
        >>> async with await AsyncSandbox.create(content={"workspace": "bot"}) as bot:
        ...     _ = await client.content.push("bot", {**files, "notes.md": "new"})
        ...     await bot.sync_content("bot") > 0
        True
        """
        binding = _present(workspace=workspace, version=version)
        return await self._event({"type": "WorkspaceSyncRequested", "workspace_binding": binding})

    async def apply_content(self, mode: str = "immediate_if_idle") -> int:
        """Adopts the staged content: `next_run`, `next_step_boundary` or `immediate_if_idle`.

        >>> files = {"agent.workspace.json": '{"schema_version": 1}'}
        >>> _ = await client.content.push("bot", files)
        >>> async with await AsyncSandbox.create(content={"workspace": "bot"}) as bot:
        ...     _ = await client.content.push("bot", {**files, "notes.md": "new"})
        ...     _ = await bot.sync_content("bot")
        ...     await bot.apply_content() > 0
        True
        """
        return await self._event({"type": "WorkspaceApplyRequested", "mode": mode})

    async def _event(self, body: Dict[str, Any]) -> int:
        accepted = await self._http.json("POST", f"{self._path}/events", body=body)
        return int(accepted["seq"])

    async def prompt(self, flavor: str = "stead") -> Prompt:
        """Returns the text that tells a model about its workspace, for `stead`, `claude` or `codex`.

        >>> "/workspace" in (await box.prompt())["text"]
        True
        """
        prompt: Prompt = await self._http.json("GET", f"{self._path}/prompt", params={"flavor": flavor})
        return prompt

    async def tool(self, name: str, **arguments: Any) -> ToolAnswer:
        """Calls a tool. A tool that ran and failed has `ok: False`; a refused call raises.

        >>> answer = await box.tool("write", path="a.txt", content="hello")
        >>> answer["ok"], answer["result"]["bytes"]
        (True, 5)
        """
        path = f"{self._path}/tools/{segment(name)}"
        answer: ToolAnswer = await self._http.json("POST", path, body=arguments, patience=600)
        return answer

    async def tools(self, format: str = "openai") -> List[Any]:
        """Returns the tools of the sandbox for a model: `openai`, `anthropic`, `langchain` (tools
        that run in the sandbox) or `mcp`.

        >>> [tool["name"] for tool in await box.tools("anthropic")][:3]
        ['bash', 'read', 'write']
        """
        workspace = self.session["workspace"] or (await self.refresh())["workspace"]
        enabled = [str(tool) for tool in workspace["tools"]] if workspace else []
        tools = _tools.offered(await self.client.tools(), enabled)
        if format == "langchain":
            from ..integrations._langchain_tools import structured_tools

            return structured_tools(self, tools)
        return [_tools.in_format(tool, format) for tool in tools]

    async def call(self, tool_call: Any) -> Dict[str, Any]:
        """Carries out a tool call of a model and returns the message to send next, in the format of
        the call: OpenAI, Anthropic, LangChain or MCP. What the model did wrong goes to the model.

        >>> call = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "none.txt"}}
        >>> answer = await box.call(call)
        >>> answer["tool_use_id"], answer["is_error"]
        ('t1', True)
        """
        call = _tools.read_call(tool_call)
        if call.problem is not None:
            return _tools.answer_message(call, call.problem, False)
        try:
            answer = await self.tool(call.name, **call.arguments)
        except SteadError as error:
            if not _tools.is_for_the_model(error):
                raise
            return _tools.answer_message(call, _tools.refusal_text(error), False)
        return _tools.answer_message(call, _tools.answer_text(answer), answer["ok"])

    async def token(self, expires_in: Optional[int] = None) -> str:
        """Returns a token that is good for this sandbox only.

        >>> len(await box.token()) > 20
        True
        """
        body = _present(expires_in=expires_in)
        return str((await self._http.json("POST", f"{self._path}/token", body=body))["token"])

    async def mcp(self) -> Dict[str, Any]:
        """Returns the settings with which an MCP client uses this sandbox over HTTP.

        >>> settings = await box.mcp()
        >>> settings["type"], settings["url"].endswith("/mcp")
        ('http', True)
        """
        url = (await self._http.endpoint()).url
        return {"type": "http", "url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {await self.token()}"}}


class AsyncForks(List[AsyncSandbox]):
    """Sandboxes that `fork` made. As a context manager it closes them."""

    async def __aenter__(self) -> "AsyncForks":
        return self

    async def __aexit__(self, *_: object) -> None:
        for fork in self:
            await fork.close()


def _present(**fields: Any) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _base_name(image: Optional[str]) -> str:
    return _BASE if image is None else f"{_BASE}-{hashlib.sha256(image.encode()).hexdigest()[:12]}"


async def _create(client: AsyncClient, body: Dict[str, Any], own_type: bool, image: Optional[str]) -> Session:
    """Creates the session, and first the agent type `base` if the server does not have it."""
    params = {"wait": _WAIT}
    try:
        session: Session = await client.http.json(
            "POST", "/sessions", body=body, params=params, creates=True, patience=_WAIT
        )
        return session
    except NotFound as error:
        if not own_type or error.parameters.get("resource") != "agent_type":
            raise
    await client.agent_types._ensure(body["agent_type"], image)
    made: Session = await client.http.json(
        "POST", "/sessions", body=body, params=params, creates=True, patience=_WAIT
    )
    return made


async def _uploaded(client: AsyncClient, directory: Path, exclude: List[str]) -> Dict[str, Any]:
    """Uploads a copy of a directory as the files that a sandbox starts with."""
    with tempfile.TemporaryDirectory(prefix="stead-") as folder:
        archive = Path(folder) / "files.tar"
        await blocking(_pack, directory, exclude, archive)
        return {"type": "bundle", "source": {"blob": await client.upload_blob(archive)}}


def _pack(directory: Path, exclude: List[str], archive: Path) -> None:
    with open(archive, "wb") as file:
        _archive.pack(directory, exclude, file)
