"""Adds up the JUnit reports of a folder: `count_tests.py FOLDER CRASHED`. Exit 0 only if nothing failed and something ran."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(path: Path) -> tuple[int, int, int]:
    """(tests, failed, skipped) of one report; GoogleTest marks a skipped case with a <skipped> child."""
    tests = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        tests += 1
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
    return tests, failed, skipped


def main(folder: str, crashed: int) -> int:
    """A crashed runner counts as one failed test; it has no report."""
    tests = failed = skipped = 0
    for path in sorted(Path(folder).glob("*.xml")):
        report = count(path)
        print(f"{path.stem}: {report[0]} tests, {report[1]} failed, {report[2]} skipped")
        tests, failed, skipped = tests + report[0], failed + report[1], skipped + report[2]
    tests, failed = tests + crashed, failed + crashed
    print(f"{tests - failed - skipped} passed, {failed} failed, {skipped} skipped")
    print(f"{tests} tests, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 and tests > skipped else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
