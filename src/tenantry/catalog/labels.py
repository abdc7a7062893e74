"""Labels of tenants, such as ``plan=free``: by them, tenants are selected."""

from collections.abc import Iterable, Mapping

from tenantry.catalog.where import COLUMNS, LABEL_KEY, LABEL_VALUE, WORDS
from tenantry.kit.errors import Invalid
from tenantry.kit.text import shown

LABELS_MAX = 20
"""Labels of one tenant."""


class BadLabels(Invalid):
    """A label of the tenant breaks a rule; the message says which."""


def is_key(text: str) -> bool:
    """Return whether *text* can be the key of a label."""
    return bool(LABEL_KEY.fullmatch(text)) and text not in COLUMNS and text not in WORDS


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return *labels*, if a tenant may have them.

    Raises:
        BadLabels: A rule is broken.
    """
    if len(labels) > LABELS_MAX:
        raise BadLabels(f"A tenant has at most {LABELS_MAX} labels.")
    for key, value in labels.items():
        if not is_key(key):
            raise BadLabels(
                f"{shown(key)} cannot be the key of a label: 1 to 63 of a-z, 0-9, '-', '_', '.', "
                f"from a letter or digit on, and none of {', '.join(sorted(WORDS | {*COLUMNS}))}."
            )
        if not LABEL_VALUE.fullmatch(value):
            raise BadLabels(
                f"{shown(value)} cannot be the value of the label {key}: 1 to 63 letters without "
                "accents, digits and characters of '-_.:@/+', from a letter or digit on."
            )
    return dict(sorted(labels.items()))


def labels_after(labels: Mapping[str, str], changes: Iterable[str]) -> dict[str, str]:
    """Return *labels* after *changes*: ``key=value`` sets one, ``key-`` removes it.

    Raises:
        BadLabels: A change has another form, removes a label that is not there, or has the key of
            another one.
    """
    after = dict(labels)
    keys = set[str]()
    for change in changes:
        key, is_set, value = change.partition("=")
        own = key if is_set else key[:-1]
        if own in keys:
            raise BadLabels(f"The label {shown(own)} is given twice.")
        keys.add(own)
        if is_set:
            after[key] = value
        elif not (key.endswith("-") and after.pop(key[:-1], "")):
            raise BadLabels(
                f"{shown(change)} must be KEY=VALUE, or KEY- with the key of a label to remove."
            )
    return after
