"""Find where a head and a chunked body end, in input that arrives in parts.

Only the end is searched here, so that the input of the next request is not parsed too early. The
parser reads the same bytes, and rejects what is not valid.
"""

from tenantry.api.error_responses import BodyTooLarge, HeadersTooLarge

EMPTY_LINE = b"\r\n\r\n"
# Lines and line ends of the chunks of one body. Each chunk costs a callback in Python, however
# small it is: so many bytes are free, and one for so many bytes of the content. Trailers, which the
# parser copies with each part, have the first limit alone.
FRAMING_BYTES_FREE = 4_096
CONTENT_BYTES_EACH = 32
# No endpoint reads more, and what is ignored after an early response is parsed, too.
CONTENT_BYTES_MAX = 2 * 2**20
TOO_MUCH_FRAMING = "The body has too many small chunks, or too large extensions or trailers."


class EmptyLine:
    """Finds an empty line: the end of a head, or of trailers.

    Args:
        tail: The last bytes that were read, which may be the beginning of it.
    """

    def __init__(self, tail: bytes = b"") -> None:
        self._tail = tail

    def end(self, data: bytes, at: int) -> int | None:
        """Return where the empty line ends that follows *at*; None if it is not in *data*."""
        tail, self._tail = self._tail, b""
        if tail:
            seam = (tail + data[at : at + 3]).find(EMPTY_LINE)
            if seam >= 0:
                return at + seam + len(EMPTY_LINE) - len(tail)
        found = data.find(EMPTY_LINE, at)
        if found >= 0:
            return found + len(EMPTY_LINE)
        self._tail = (tail + data[at:][-3:])[-3:]
        return None


class ChunkedBody:
    """Finds the end of a chunked body (RFC 9112, section 7.1); its content is skipped."""

    def __init__(self) -> None:
        # Bytes of the current chunk that are left, with its line end.
        self._left = 0
        self._line = bytearray()
        self._content = 0
        self._framing = 0
        self._trailer_bytes = 0
        self._trailers: EmptyLine | None = None

    def end(self, data: bytes, at: int) -> int:
        """Return where the body ends, or else the end of *data*, which is after *at*.

        Raises:
            HeadersTooLarge: There are too many chunks, or too long extensions or trailers.
        """
        size = len(data)
        while at < size and self._trailers is None:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                self._content += step
                at += step
                if self._content > CONTENT_BYTES_MAX:
                    raise BodyTooLarge
            else:
                at = self._end_of_line(data, at)
        if at == size or self._trailers is None:
            return at
        end = self._trailers.end(data, at) or size
        self._trailer_bytes += end - at
        if self._trailer_bytes > FRAMING_BYTES_FREE:
            raise HeadersTooLarge(TOO_MUCH_FRAMING)
        return end

    def _end_of_line(self, data: bytes, at: int) -> int:
        found = data.find(b"\n", at)
        end = len(data) if found < 0 else found + 1
        self._count(end - at)
        self._line += data[at:end]
        if found >= 0:
            length = _length(bytes(self._line))
            if length:
                self._left = length + 2
                self._count(2)
            else:
                self._trailers = EmptyLine(bytes(self._line[-2:]))
            self._line.clear()
        return end

    def _count(self, count: int) -> None:
        self._framing += count
        if self._framing > FRAMING_BYTES_FREE + self._content // CONTENT_BYTES_EACH:
            raise HeadersTooLarge(TOO_MUCH_FRAMING)


def _length(line: bytes) -> int:
    """Return the length of a chunk; 0 also for a line that the parser rejects."""
    digits = line.partition(b";")[0].strip()
    try:
        return int(digits, 16) if digits.isalnum() else 0
    except ValueError:
        return 0
