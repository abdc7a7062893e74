"""Pages of a list."""

from dataclasses import dataclass
from typing import Generic, TypeVar

PAGE_MAX = 2**31 - 1
"""The last page that can be requested: clients may store page numbers as 32-bit integers."""
PAGE_SIZE_DEFAULT = 10
PAGE_SIZE_MAX = 100

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Window:
    """A page of a list, from 1, and its size: limited to `PAGE_MAX` and `PAGE_SIZE_MAX`."""

    page: int = 1
    size: int = PAGE_SIZE_DEFAULT

    def __post_init__(self) -> None:
        """Limit the page and its size."""
        object.__setattr__(self, "page", min(self.page, PAGE_MAX))
        object.__setattr__(self, "size", min(self.size, PAGE_SIZE_MAX))

    @property
    def offset(self) -> int:
        """How many items come before the page."""
        return (self.page - 1) * self.size


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """One page of a list, and the length of the list."""

    items: list[Item]
    window: Window
    total_count: int

    @property
    def total_pages(self) -> int:
        """The number of pages; 0 for an empty list."""
        return -(-self.total_count // self.window.size)
