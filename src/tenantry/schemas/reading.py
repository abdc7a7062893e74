"""Messages about invalid requests, the same for every door."""

import msgspec

from tenantry.kit.text import BadText, shown

_AT = " - at `$"


def readable(error: msgspec.DecodeError) -> str:
    """Return a message for an error of msgspec: the member, and the rule that it breaks.

    msgspec repeats unknown names and invalid values of the request, so the message is shortened.
    """
    # msgspec writes the member last: "Expected `str`, got `int` - at `$.email`".
    text = str(error)
    rule, _, path = text.rpartition(_AT) if _AT in text else (text, "", "")
    member = shown(path.rstrip("`").lstrip("."))
    text = shown(rule.removesuffix("."))
    return f"`{member}`: {text}." if member else f"{text}."


def check_text(request: msgspec.Struct) -> None:
    """Check that no text in *request* contains NUL, which PostgreSQL cannot store.

    Raises:
        BadText: A text contains NUL.
    """
    fields = zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True)
    for field, name in fields:
        value = getattr(request, field)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and "\0" in text:
                raise BadText(f"`{name}` must not hold NUL characters.")
            if isinstance(text, msgspec.Struct):
                check_text(text)
