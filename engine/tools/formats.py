"""The string formats of JSON Schema that are checked; a format that is not here is an annotation, as the standard allows."""

import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"\d{2}:\d{2}:\d{2}(\.\d+)?([zZ]|[+-]\d{2}:\d{2})", re.ASCII)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_UUID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:\S+", re.ASCII)
_HOSTNAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9\-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9\-]{0,61}[A-Za-z0-9])?)*", re.ASCII)


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def fits(value: str) -> bool:
        try:
            parse(value)
        except ValueError:
            return False
        return True

    return fits


def _whole(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and _parses(date.fromisoformat)(value)


def _is_date_time(value: str) -> bool:
    day, separator, time = value[:10], value[10:11], value[11:]
    well_formed = _DATE.fullmatch(day) is not None and separator in ("T", "t") and _TIME.fullmatch(time) is not None
    return well_formed and _parses(datetime.fromisoformat)(value.upper())


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "time": _whole(_TIME),
    "email": _whole(_EMAIL),
    "uuid": _whole(_UUID),
    "uri": _whole(_URI),
    "hostname": _whole(_HOSTNAME),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
}
"""Format name to its test of a string."""
