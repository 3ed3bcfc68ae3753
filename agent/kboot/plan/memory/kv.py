"""How much KV cache does a token take on a rank, how much state a sequence, and what context is there room for?"""

from __future__ import annotations

from collections.abc import Sequence

from kboot.plan.memory.ranks import Degrees, flag_value, pipeline_layers
from kboot.plan.memory.shape import Attention, Compressed, Gqa, Kda, Mla, ModelShape, NoCache, Recurrent, Unknown
from kboot.values import dataclass

KV_DTYPE = ("--kv-cache-dtype",)
_ENDLESS = 1 << 62  # a stage that keeps states only limits no length
_SCALE_OF = 64  # numbers of a compressed vector that share an FP8 scale of one byte
_OVERLAP_RATIO = 4  # layers that compress over so few tokens keep two blocks of states (vLLM's coff)
# vLLM keeps KDA's recurrent state in float32 (kda_state_dtype in mamba_utils.py); others in the cache's dtype unless
# the model asks for more, as the large ones do. The wider one is counted.
_STATE_BYTES = 4


@dataclass(frozen=True, slots=True)
class KvNeed:
    """What one rank of a stage keeps. sequence_bytes: states and windows of one sequence, whatever its length."""

    token_bytes: int
    sequence_bytes: int


@dataclass(frozen=True, slots=True)
class KvRoom:
    """What the room of the tightest rank is good for.

    tokens: of one sequence, on one data-parallel replica. context_tokens: the longest that fits and that the model
    knows. sequences: of that asked length at once, on one replica; asked_tokens: --max-model-len, else the model's.
    why: "MLA 24 layers × 1,152 B, KDA 69 layers".
    """

    need: KvNeed
    tokens: int
    context_tokens: int
    asked_tokens: int | None
    sequences: int | None
    why: str

    @property
    def serves(self) -> bool:
        """Whether one sequence of the length that is asked for fits; any at all where none is asked."""
        return self.tokens > 0 and (self.asked_tokens is None or self.tokens >= self.asked_tokens)


def why_unknown(shape: ModelShape) -> str | None:
    """Return why the cache cannot be computed; None where it can."""
    if not shape.attention:
        return "config.json is not known"
    return next((a.why for a in shape.attention if isinstance(a, Unknown)), None)


def kv_needs(shape: ModelShape, degrees: Degrees, args: Sequence[str] = ()) -> tuple[KvNeed, ...]:
    """Return what a rank of each stage keeps. args: of the layout, for the cache's dtype and context parallelism."""
    dtype = flag_value(args, *KV_DTYPE) or ""
    width = 1 if dtype.startswith("fp8") else 2
    wide = dtype in ("bfloat16", "float16")  # a compressed vector is FP8 unless it is asked for otherwise
    asked = flag_value(args, "--decode-context-parallel-size", "-dcp") or "1"
    context = max(1, int(asked)) if asked.isdigit() else 1
    needs, at = [], 0
    for count in pipeline_layers(len(shape.attention), degrees.stages):
        layers = shape.attention[at : at + count]
        at += count
        token = sum(_token_bytes(a, degrees.tensor, width, context, wide) for a in layers)
        needs.append(KvNeed(token, sum(_sequence_bytes(a, degrees.tensor, width, wide) for a in layers)))
    return tuple(needs)


def kv_room(rooms: Sequence[int], needs: Sequence[KvNeed], shape: ModelShape, args: Sequence[str] = ()) -> KvRoom:
    """Return what the rooms are good for. rooms: bytes left on the tightest rank of each stage."""
    rooms_of = list(zip(rooms, needs, strict=True))
    tokens, need = min(((_tokens(room, each), each) for room, each in rooms_of), key=lambda found: found[0])
    longest = shape.max_context_tokens
    asked = asked_tokens(args) or longest
    sequences = None
    if asked is not None:
        each_bytes = [n.sequence_bytes + asked * n.token_bytes for n in needs]
        sequences = min(max(0, room) // size if size else 0 for room, size in zip(rooms, each_bytes, strict=True))
    context = tokens if longest is None else min(tokens, longest)
    return KvRoom(need, tokens, max(0, context), asked, sequences, _words(shape))


def _tokens(room: int, need: KvNeed) -> int:
    left = room - need.sequence_bytes
    if left < 0:
        return 0
    return left // need.token_bytes if need.token_bytes else _ENDLESS


def asked_tokens(args: Sequence[str]) -> int | None:
    """Return --max-model-len (vLLM) or --context-length (SGLang); units as vLLM reads them ("1M" = 1,048,576)."""
    text = flag_value(args, "--max-model-len", "--context-length", "--max-model-length")
    if not text:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1].isalpha() else (text, "")
    scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}.get(unit)
    try:
        return int(float(number) * scale) if scale else None
    except ValueError:
        return None


def _token_bytes(attention: Attention, tensor: int, width: int, context: int, wide: bool) -> int:
    match attention:
        case Mla():  # each tensor rank keeps the whole latent; decode context parallelism divides tokens
            return -(-(attention.latent * width + attention.index_bytes) // context)
        case Gqa(window=None):
            return 2 * -(-attention.kv_heads // tensor) * attention.head_dim * width
        case Compressed(ratio=ratio) if ratio:
            # FP8 keys of the indexer with one F32 scale for each block of 128; each tensor rank keeps all
            index = attention.index + 4 * -(-attention.index // 128)
            return -(-(_vector_bytes(attention, wide) + index) // ratio)
        case _:
            return 0


def _vector_bytes(attention: Compressed, wide: bool) -> int:
    """Return what one vector takes: 584 bytes of DeepSeek V4's 512 numbers (fp8_ds_mla in vLLM's attention.py)."""
    if wide:
        return 2 * attention.width
    plain = attention.width - attention.rope
    return plain + 2 * attention.rope + plain // _SCALE_OF + 1


def _compressor_bytes(attention: Compressed, width: int) -> int:
    """Return the states of tokens that are not compressed yet: keys and scores in float32 (compressor.py of vLLM)."""
    blocks = 2 if attention.ratio == _OVERLAP_RATIO else 1
    return blocks * attention.ratio * 2 * blocks * width * _STATE_BYTES


def _sequence_bytes(attention: Attention, tensor: int, width: int, wide: bool) -> int:
    match attention:
        case Kda():
            inner = -(-attention.heads // tensor) * attention.head_dim
            return inner * attention.head_dim * _STATE_BYTES + (attention.kernel - 1) * 3 * inner * 2
        case Recurrent():
            states = -(-attention.heads // tensor) * attention.numbers * _STATE_BYTES
            return states + (attention.kernel - 1) * -(-attention.channels // tensor) * 2
        case Gqa(window=window, beside=beside):
            state = _sequence_bytes(beside, tensor, width, wide) if beside else 0
            return state + (window or 0) * 2 * -(-attention.kv_heads // tensor) * attention.head_dim * width
        case Compressed():
            states = _compressor_bytes(attention, attention.width) + _compressor_bytes(attention, attention.index)
            return attention.window * _vector_bytes(attention, wide) + states
        case _:
            return 0


def _words(shape: ModelShape) -> str:
    """ "24 layers MLA, 69 layers KDA"."""
    counts: dict[str, int] = {}
    for attention in shape.attention:
        match attention:
            case Mla():
                name = f"MLA latent {attention.latent}" + (" with an indexer" if attention.index_bytes else "")
            case Gqa(window=window, beside=beside):
                name = f"{attention.kv_heads} KV heads of {attention.head_dim}"
                name += "" if window is None else f" in a window of {window}"
                name += f" beside a state {beside.heads} x {beside.numbers}" if beside else ""
            case Kda():
                name = f"KDA state {attention.heads} x {attention.head_dim} x {attention.head_dim}"
            case Recurrent():
                name = f"state {attention.heads} x {attention.numbers}"
            case NoCache():
                name = "without a cache"
            case Compressed(ratio=0):
                name = f"latent {attention.width} in a window of {attention.window}"
            case Compressed():
                name = f"latent {attention.width} for each {attention.ratio} tokens"
                name += " with an indexer" if attention.index else ""
            case Unknown():
                name = "unknown"
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{n} layers {name}" for name, n in counts.items())
