"""Checks of images, audio and video in replies and tool results (promptkit-format.md 3.5), from what their parts say of themselves.

A part is `{"type": "image", "media": {"mimeType", "width", "height", "durationS", …}}`. What a part does not say counts against it. Must not open media.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.checks.evidence import Evaluate, Evidence, Outcome, verdict
from engine.checks.params import Param, Values, count, names, number, text
from engine.checks.registry import CheckType
from engine.checks.shown import listed, shown

Media = Mapping[str, Any]

PRESETS: Mapping[str, int] = {"480p": 480, "720p": 720, "1080p": 1080, "1440p": 1440, "2160p": 2160, "4k": 2160, "4320p": 4320, "8k": 4320}
"""Names of video sizes, and the height that each stands for; read without regard to case."""

_SAME_FORMAT = {"audio/mpeg": "mp3", "image/jpg": "jpeg", "audio/x-wav": "wav", "audio/wave": "wav", "audio/vnd.wave": "wav"}
_SPELLINGS = {"jpg": "jpeg", "mpeg": "mp3"}

Fault = Callable[[Media], str]
"""Says what is wrong with one medium, "" when nothing is."""


def media_of(evidence: Evidence, kind: str) -> list[Media]:
    """Return every part of a kind that the assistant said or a tool returned, in order."""
    return [part.get("media") or {} for part in _parts(evidence) if part.get("type") == kind]


def format_of(media: Media) -> str:
    """Return the short name of a medium's format: that of its MIME type, without parameters; "" when it says none."""
    mime = str(media.get("mimeType", "")).partition(";")[0].strip().lower()
    return _SAME_FORMAT.get(mime, mime.partition("/")[2])


def _parts(evidence: Evidence) -> Iterator[Mapping[str, Any]]:
    for message in evidence.messages:
        if message.role == "assistant":
            yield from message.parts
        elif message.tool_result is not None:
            yield from message.tool_result.parts


def _all(kind: str, fault: Fault) -> Evaluate:
    """Return the evaluation that wants every medium of a kind to be faultless, and at least one to be there."""

    def evaluate(evidence: Evidence) -> Outcome:
        found = media_of(evidence, kind)
        if not found:
            return Outcome(0.0, f"there is no {kind}", {"found": 0})
        faults = [f"{kind} {place}: {wrong}" for place, media in enumerate(found, 1) if (wrong := fault(media))]
        return verdict(holds=not faults, explanation="; ".join(faults) or f"all {len(found)} are as wanted", value={"found": len(found)})

    return evaluate


def _format(kind: str) -> Callable[[Values], Evaluate]:
    def prepare(values: Values) -> Evaluate:
        wanted = {_SPELLINGS.get(name.lower(), name.lower()) for name in values["formats"]}
        if not wanted:
            raise ValueError("'formats' must name a format")

        def fault(media: Media) -> str:
            found = format_of(media)
            return "" if found in wanted else f"its format is {shown(found)}, {listed(sorted(wanted))} wanted"

        return _all(kind, fault)

    return prepare


def _sizes(values: Values) -> Fault:
    demands = [(side, *_demand(values, side)) for side in ("width", "height")]

    def fault(media: Media) -> str:
        wrong = []
        for side, least, most in demands:
            size = media.get(side)
            if least is None and most is None:
                continue
            if not isinstance(size, int | float) or isinstance(size, bool):
                wrong.append(f"it does not say its {side}")
            else:
                wrong += _outside(f"{side} {size:g}", size, least, most)
        return ", ".join(wrong)

    return fault


def _demand(values: Values, side: str) -> tuple[int | None, int | None]:
    exact = values.get(side)
    return (exact, exact) if exact is not None else (values[f"min_{side}"], values[f"max_{side}"])


def _dimensions(values: Values) -> Evaluate:
    return _all("image", _sizes(values))


def _resolution(values: Values) -> Evaluate:
    unknown = [name for name in values["presets"] if name.lower() not in PRESETS]
    if unknown:
        raise ValueError(f"'presets' holds {shown(unknown[0])}, which is none of {', '.join(PRESETS)}")
    heights = {PRESETS[name.lower()] for name in values["presets"]}
    sizes = _sizes(values)

    def fault(media: Media) -> str:
        wrong = [sizes(media)]
        if heights and media.get("height") not in heights:
            wrong.append(f"its height is {media.get('height', 'not known')}, {listed(values['presets'])} wanted")
        return ", ".join(phrase for phrase in wrong if phrase)

    return _all("video", fault)


def _duration(kind: str) -> Callable[[Values], Evaluate]:
    def prepare(values: Values) -> Evaluate:
        least, most = values["min_seconds"], values["max_seconds"]

        def fault(media: Media) -> str:
            seconds = media.get("durationS")
            if not isinstance(seconds, int | float) or isinstance(seconds, bool):
                return "it does not say how long it is"
            return ", ".join(_outside(f"{seconds:g} s", seconds, least, most))

        return _all(kind, fault)

    return prepare


def _outside(what: str, found: float, least: float | None, most: float | None) -> list[str]:
    if least is not None and found < least:
        return [f"{what} is less than {least:g}"]
    return [f"{what} is more than {most:g}"] if most is not None and found > most else []


def _has_media(values: Values) -> Evaluate:
    return _some(values, lambda part: part.get("type") == values["media_type"], values["media_type"])


def _media_type(values: Values) -> Evaluate:
    wanted = values["mime_type"].lower()
    return _some(values, lambda part: str((part.get("media") or {}).get("mimeType", "")).partition(";")[0].strip().lower() == wanted, wanted)


def _some(values: Values, fits: Callable[[Mapping[str, Any]], bool], what: str) -> Evaluate:
    tool = values["tool"]

    def evaluate(evidence: Evidence) -> Outcome:
        results = [record for record in evidence.calls if not tool or record.name == tool]
        holds = any(fits(part) for record in results for part in record.result.parts)
        found = list(dict.fromkeys(_named(part) for record in results for part in record.result.parts))
        return verdict(holds=holds, explanation=f"{len(results)} results hold {listed(found)}, {what} wanted", value={"found": found})

    return evaluate


def _named(part: Mapping[str, Any]) -> str:
    return str((part.get("media") or {}).get("mimeType") or part.get("type", ""))


_FORMATS = (Param("formats", names, required=True),)
_SECONDS = (Param("min_seconds", number), Param("max_seconds", number))
_RANGES = tuple(Param(f"{bound}_{side}", count) for side in ("width", "height") for bound in ("min", "max"))
_TOOL = Param("tool", text, default="", aliases=("tool_name",))

CHECKS = (
    CheckType("image_format", _FORMATS, _format("image"), spans=True),
    CheckType("audio_format", _FORMATS, _format("audio"), spans=True),
    CheckType("image_dimensions", (*_RANGES, Param("width", count), Param("height", count)), _dimensions, spans=True),
    CheckType("audio_duration", _SECONDS, _duration("audio"), spans=True),
    CheckType("video_duration", _SECONDS, _duration("video"), spans=True),
    CheckType("video_resolution", (*_RANGES, Param("presets", names, default=())), _resolution, spans=True),
    CheckType("tool_result_has_media", (_TOOL, Param("media_type", text, required=True)), _has_media, spans=True),
    CheckType("tool_result_media_type", (_TOOL, Param("mime_type", text, required=True)), _media_type, spans=True),
)
