"""The parameters of each check as a pydantic model: for schemas that editors read, for documentation, for other programs.

Made from what a check declares (`engine.checks.params`), so that there is one owner of what a parameter is; loading a bundle does without pydantic.
Must not know bundles.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, create_model

from engine.checks import params as readers
from engine.checks.params import Objects, OneOf, Param, Reader
from engine.checks.registry import ALIASES, check_types

_SHAPES: Mapping[Reader, Any] = {
    readers.text: str,
    readers.texts: list[str],
    readers.names: str | list[str],
    readers.flag: bool,
    readers.number: float,
    readers.whole: int,
    readers.count: Annotated[int, Field(ge=0)],
    readers.mapping: dict[str, Any],
    readers.pattern: Annotated[str, Field(description="an RE2 pattern")],
    readers.patterns_by_name: Annotated[dict[str, str], Field(description="RE2 patterns by name")],
}
"""What a reader takes, as a type; a reader that is not here takes what it says itself."""


@cache
def params_model(check: str) -> type[BaseModel]:
    """Return the model of what `params` of a check may hold: closed, each parameter under all its names, and the keys that every check takes.

    It accepts what loading a bundle accepts, but for rules between parameters; its instances hold the values as they were written.

    Raises:
        KeyError: there is no such check, or it is not built.
    """
    found = check_types()[ALIASES.get(check, check)]
    return _model(found.name, found.declared, universal=True)


def params_schema(check: str) -> dict[str, Any]:
    """Return `params` of a check as a JSON Schema. A parameter with several names is not required under any one of them.

    Raises:
        KeyError: as `params_model`.
    """
    found = check_types()[ALIASES.get(check, check)]
    schema = params_model(check).model_json_schema(mode="serialization")
    properties = schema.setdefault("properties", {})
    for param in found.declared:
        properties.update(dict.fromkeys(param.aliases, properties[param.key]))
    for described in (*properties.values(), *(found for part in schema.get("$defs", {}).values() for found in part["properties"].values())):
        if described.get("default", ...) is None:
            del described["default"]
    with_aliases = {param.key for param in found.declared if param.aliases}
    required = [key for key in schema.pop("required", ()) if key not in with_aliases]
    return schema | ({"required": required} if required else {})


def _model(name: str, declared: Sequence[Param], *, universal: bool) -> type[BaseModel]:
    fields: dict[str, Any] = {_attribute(param.key): _field(param) for param in declared}
    if universal:
        fields |= {"min_score": (float | None, None), "max_score": (float | None, None), "message": (str | None, None)}
    title = f"{name} parameters"
    return create_model(_class_name(name), __config__=ConfigDict(extra="forbid", title=title, populate_by_name=False), **fields)


def _field(param: Param) -> tuple[Any, Any]:
    known = param.default if isinstance(param.default, str | int | float) else None
    default = ... if param.required else known
    shape: Any = Annotated[_shape(param), BeforeValidator(_checked(param.read))]
    return shape, Field(default, validation_alias=AliasChoices(*param.names), serialization_alias=param.key)


def _shape(param: Param) -> Any:
    read = param.read
    if isinstance(read, OneOf):
        return Literal[read.choices]
    if isinstance(read, Objects):
        return GenericAlias(list, (_model(param.key, read.declared, universal=False),))
    return _SHAPES.get(read, Any)


def _checked(read: Reader) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        read(value)
        return list(value) if isinstance(value, tuple) else value

    return check


def _attribute(key: str) -> str:
    """Return a name for the field of a parameter that pydantic's own methods do not use."""
    return f"{key}_" if hasattr(BaseModel, key) else key


def _class_name(name: str) -> str:
    return "".join(word.title() for word in name.split("_")) + "Params"
