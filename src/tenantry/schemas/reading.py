"""What every door says of a request that it cannot take, in the same words."""

import msgspec

from tenantry.kit.text import BadText, shown

_AT = " - at `$"


def readable(error: msgspec.DecodeError) -> str:
    """Return what msgspec says of a member and of the rule that it breaks, at no great length.

    It repeats the names of unknown members, and what is none of some values.
    """
    # "Expected `str`, got `int` - at `$.email`" names the member already, in another place.
    said = str(error)
    rule, _, where = said.rpartition(_AT) if _AT in said else (said, "", "")
    member = shown(where.rstrip("`").lstrip("."))
    text = shown(rule.removesuffix("."))
    return f"`{member}`: {text}." if member else f"{text}."


def check_text(request: msgspec.Struct) -> None:
    """Check that no text in *request* holds what PostgreSQL cannot store: NUL.

    Raises:
        BadText: One does.
    """
    fields = zip(request.__struct_fields__, request.__struct_encode_fields__, strict=True)
    for field, name in fields:
        value = getattr(request, field)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and "\0" in text:
                raise BadText(f"`{name}` must not hold NUL characters.")
            if isinstance(text, msgspec.Struct):
                check_text(text)
