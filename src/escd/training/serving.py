"""Options of a teacher on servers."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import ConfigError
from ..objectives.options import check_choice, check_number, check_whole
from ..teachers.served.formats import DTYPES


@dataclass
class ServingArguments:
    """Fields of `ESCDConfig` about a teacher on vLLM servers.

    Args:
        teacher_server_url: Addresses of the servers. The teacher's name then stands for its tokenizer, generation
            configuration and lm_head only.
        teacher_server_model: Name of the teacher on the servers, if it is not the checkpoint's.
        teacher_server_dtype: In which hidden states are sent: float32, bfloat16, or auto: bfloat16 where a server
            computes in it, so that nothing is lost.
        teacher_top_k: Take this many most likely tokens of each row instead of its hidden state, from servers that
            generate. Objective `escd` is then `escd-topk`.
        teacher_server_timeout: Seconds after which a request that no server answers ends the run.
        teacher_cache_dir: Folder of rows that a resumed run does not ask for again; by default in the output folder,
            until the run is finished.
        teacher_cache_megabytes: How much it may hold; 0 is none.
    """

    objective: str = "escd"

    teacher_server_url: list[str] | None = field(
        default=None,
        metadata={"help": "Addresses of vLLM servers that hold the teacher, e.g. http://127.0.0.1:8000."},
    )
    teacher_server_model: str | None = field(
        default=None, metadata={"help": "Name of the teacher on the servers, if it is not the checkpoint's."}
    )
    teacher_server_dtype: str = field(
        default="auto",
        metadata={"help": "In which hidden states are sent: float32, bfloat16, or auto: bfloat16 if that is exact."},
    )
    teacher_top_k: int | None = field(
        default=None,
        metadata={"help": "Take this many most likely tokens of each row, from servers that generate."},
    )
    teacher_server_timeout: float = field(
        default=600.0, metadata={"help": "Seconds after which a request that no server answers ends the run."}
    )
    teacher_cache_dir: str | None = field(
        default=None, metadata={"help": "Folder of teacher rows for a resumed run. Default: in the output folder."}
    )
    teacher_cache_megabytes: int = field(
        default=1024, metadata={"help": "How much of the servers' rows is kept on disk; 0 is none."}
    )

    def check_serving(self) -> None:
        """Raise `ConfigError` for values that cannot be, or that have no effect without a server."""
        if isinstance(self.teacher_server_url, str):
            self.teacher_server_url = [self.teacher_server_url]
        check_choice("teacher_server_dtype", self.teacher_server_dtype, ("auto", *DTYPES))
        check_number("teacher_server_timeout", self.teacher_server_timeout, over=True)
        check_whole("teacher_cache_megabytes", self.teacher_cache_megabytes, low=0)
        if self.teacher_top_k is not None:
            check_whole("teacher_top_k", self.teacher_top_k)
        for name in ("teacher_server_model", "teacher_top_k"):
            if not self.teacher_server_url and getattr(self, name) is not None:
                raise ConfigError(f"{name} has no effect without --teacher_server_url")
        if self.teacher_top_k is not None and self.objective == "escd":
            self.objective = "escd-topk"
        if (self.objective == "escd-topk") != (self.teacher_top_k is not None):
            raise ConfigError(
                f"objective {self.objective!r} needs the teacher's full rows; leave --teacher_top_k out"
                if self.teacher_top_k
                else "objective 'escd-topk' needs --teacher_server_url and --teacher_top_k"
            )
