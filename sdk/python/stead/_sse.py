"""A parser of server-sent events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional


@dataclass
class ServerEvent:
    event: str
    data: str
    id: Optional[str]


class EventParser:
    """Collects bytes and returns complete events. Only a line feed ends a line: JSON may hold every
    other character that Python counts as a line end."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: List[str] = []
        self._id: Optional[str] = None

    def feed(self, data: bytes) -> List[ServerEvent]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        events: List[ServerEvent] = []
        for line in lines:
            found = self._line(line.rstrip(b"\r").decode("utf-8", "replace"))
            if found is not None:
                events.append(found)
        return events

    def _line(self, line: str) -> Optional[ServerEvent]:
        if not line:
            event = ServerEvent(self._event, "\n".join(self._data), self._id)
            complete = bool(self._data)
            self._event, self._data, self._id = "", [], None
            return event if complete else None
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            self._event = value
        elif field == "data":
            self._data.append(value)
        elif field == "id":
            self._id = value
        return None
