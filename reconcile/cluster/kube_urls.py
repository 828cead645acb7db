"""Where objects are in the URLs of an API server, and how a selection is spelt there. Pure."""

import re
from urllib.parse import quote

from reconcile.cluster.kube_errors import About
from reconcile.cluster.port import Fields, Labels, ResourceKind
from reconcile.cluster.selectors import Requirement, Selector
from reconcile.errors import FieldError, Invalid, NotFound

_SPECIAL = re.compile(r"([\\,=])")


def collection_path(kind: ResourceKind, namespace: str | None) -> str:
    """Return the path of the objects of a kind, in one namespace or in all."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{quote(namespace, safe='')}/{kind.plural}" if namespace and kind.namespaced else f"{root}/{kind.plural}"


def object_path(about: About) -> str:
    """Return the path of one object.

    Raises:
        NotFound: no object can have such a name or namespace: in a URL they would name something else.
    """
    if about.name in ("", ".", "..") or about.namespace in (".", "..") or (about.kind.namespaced and not about.namespace):
        raise NotFound(about.kind.kind, about.namespace, about.name)
    return f"{collection_path(about.kind, about.namespace)}/{quote(about.name, safe='')}"


def selection(labels: Labels | None, fields: Fields | None = None) -> dict[str, str]:
    """Return the query parameters that select by labels and fields, {} for everything.

    Raises:
        Invalid: a term on a field is neither equal nor not equal.
    """
    query = {}
    if label_terms := _terms(labels):
        query["labelSelector"] = ",".join(_label_term(term) for term in label_terms)
    if field_terms := _terms(fields):
        query["fieldSelector"] = ",".join(_field_term(term) for term in field_terms)
    return query


def _terms(selected: Labels | Fields | None) -> tuple[Requirement, ...]:
    selector = selected if isinstance(selected, Selector) else Selector.equal(selected or {})
    return selector.requirements


def _label_term(term: Requirement) -> str:
    match term.operator:
        case "exists":
            return term.key
        case "absent":
            return f"!{term.key}"
        case operator:
            return f"{term.key} {operator} ({','.join(sorted(term.values))})"


def _field_term(term: Requirement) -> str:
    values = [_SPECIAL.sub(r"\\\1", value) for value in sorted(term.values)]
    if term.operator == "in" and len(values) == 1:
        return f"{term.key}={values[0]}"
    if term.operator == "notin":
        return ",".join(f"{term.key}!={value}" for value in values)
    raise Invalid([FieldError("fieldSelector", f"Invalid value: {term.key!r}: a field can only be equal or not equal to a value")])
