import pytest

from kboot.errors import SourceError
from kboot.sources.framing import Frame, end_of_request, frame, range_header

SIZE = 4096


def test_the_range_header_is_the_shortest_that_says_it() -> None:
    """A whole file needs none; an open end stays open."""
    assert {} == range_header(0, None)
    assert {"Range": "bytes=3727-"} == range_header(3727, None)
    assert {"Range": "bytes=0-99"} == range_header(0, 100)


def test_no_request_asks_for_tens_of_gigabytes() -> None:
    """huggingface_hub#4330, xet-core#592: a file of 432 GB that is asked for whole is answered with 400."""
    size = 432_000_000_000

    assert 17_179_869_184 == end_of_request(0, size, size)
    assert 27_179_869_184 == end_of_request(10_000_000_000, size, size)
    assert None is end_of_request(430_000_000_000, size, size)
    assert 431_000_000_000 == end_of_request(430_000_000_000, 431_000_000_000, size)


@pytest.mark.parametrize(
    ("status", "headers", "start", "end", "wanted"),
    [
        (200, {"content-length": "4096"}, 0, None, Frame(0, 4096, 4096)),
        (200, {}, 0, None, Frame(0, None, None)),
        (200, {"content-length": "4096"}, 2000, None, Frame(0, 4096, 4096)),  # the range was ignored: skip
        (206, {"content-range": "bytes 2000-4095/4096", "content-length": "2096"}, 2000, None, Frame(2000, 2096, 4096)),
        (206, {"content-range": "bytes 0-4095/4096"}, 0, None, Frame(0, 4096, 4096)),  # not asked for, but right
        (206, {"content-range": "bytes 10-19/*"}, 10, 20, Frame(10, 10, None)),
        (206, {"content-range": "bytes 10-14/4096"}, 10, 20, Frame(10, 5, 4096)),  # a server may give less
        (200, {"content-length": "\xb2"}, 0, None, Frame(0, None, None)),  # a digit, and no number
        (200, {"content-length": "9" * 5000}, 0, None, Frame(0, None, None)),
        (200, {"content-encoding": "identity", "transfer-encoding": "Chunked"}, 0, None, Frame(0, None, None)),
    ],
)
def test_honest_answers(status: int, headers: dict[str, str], start: int, end: int | None, wanted: Frame) -> None:
    """What an answer carries follows from its headers."""
    assert wanted == frame(status, headers, start, end, SIZE)


@pytest.mark.parametrize(
    ("status", "headers", "start", "end", "code"),
    [
        (200, {"content-length": "4095"}, 0, None, "size-mismatch"),
        (200, {"content-encoding": "gzip"}, 0, None, "transformed-body"),
        (206, {"content-encoding": "br", "content-range": "bytes 0-4095/4096"}, 0, None, "transformed-body"),
        (206, {}, 10, None, "range-lie"),
        (206, {"content-type": "multipart/byteranges"}, 10, None, "range-lie"),
        (206, {"content-range": "bytes 0-4095/4096"}, 10, None, "range-lie"),
        (206, {"content-range": "bytes 11-4095/4096"}, 10, None, "range-lie"),
        (206, {"content-range": "bytes 10-4095/4096", "content-length": "7"}, 10, None, "range-lie"),
        (206, {"content-range": "bytes 10-30/4096"}, 10, 20, "range-lie"),
        (206, {"content-range": "bytes 10-9/4096"}, 10, 20, "range-lie"),
        (206, {"content-range": "bytes 10-99/100"}, 10, None, "size-mismatch"),
        (416, {"content-range": "bytes */100"}, 4000, None, "size-mismatch"),
        (416, {"content-range": "bytes */4096"}, 4000, None, "range-refused"),
        (416, {}, 4000, None, "range-refused"),
    ],
)
def test_lies(status: int, headers: dict[str, str], start: int, end: int | None, code: str) -> None:
    """An answer that contradicts itself, the request or the listing is refused before a byte is read."""
    with pytest.raises(SourceError) as caught:
        frame(status, headers, start, end, SIZE)

    assert code == caught.value.code
