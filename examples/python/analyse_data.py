"""A data analysis: uploads a table, runs code on it in the box, and downloads the results.

    python analyse_data.py TABLE.csv RESULTS

The code draws its plot as an SVG with the standard library, because a box has no network to install
packages with.
"""

import json
import sys
from pathlib import Path

from stead import Sandbox

CODE = """
import csv, json, statistics, sys
rows = list(csv.DictReader(open("table.csv")))
groups = {}
for row in rows:
    groups.setdefault(row["city"], []).append(float(row["degrees"]))
summary = {city: {"mean": round(statistics.mean(values), 2), "count": len(values)} for city, values in groups.items()}
json.dump(summary, open("results/summary.json", "w"), indent=1)
bars = []
for index, (city, one) in enumerate(sorted(summary.items())):
    bars.append(f'<rect x="{index * 60}" y="{200 - one["mean"] * 5}" width="50" height="{one["mean"] * 5}"/>')
    bars.append(f'<text x="{index * 60}" y="215">{city}</text>')
open("results/plot.svg", "w").write(f'<svg xmlns="http://www.w3.org/2000/svg">{"".join(bars)}</svg>')
"""


def main(table: str, results: str) -> None:
    with Sandbox.create() as box:
        box.files.upload(table, "table.csv")
        box.files.mkdir("results")
        box.files.write("analyse.py", CODE)
        box.commands.run("python3 analyse.py", check=True)
        box.files.download("results", results)
    summary = json.loads((Path(results) / "summary.json").read_text())
    for city, one in sorted(summary.items()):
        print(f"{city}: mean {one['mean']} of {one['count']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
