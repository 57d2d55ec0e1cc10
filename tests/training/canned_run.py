"""A few steps on fixed responses, so that only the split of the batch differs between runs. Run by test_split.py.

usage: canned_run.py PAIR_DIR OUTPUT_DIR PER_DEVICE_BATCH ACCUMULATION [lora]
"""

import sys
import zlib

from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import save_file

from escd import ESCDConfig, ESCDTrainer


class CannedTrainer(ESCDTrainer):
    """The response depends on the prompt alone: bytes of the student's vocabulary, of uneven length."""

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        tokens = [i for i, b in enumerate(self.student_vocab.token_bytes) if b is not None and b.isascii()]
        found = []
        for ids in prompt_ids:
            state = zlib.crc32(bytes(str(ids), "ascii"))
            length = 1 + state % 23
            response = [tokens[(state >> k % 17) * (k + 1) % len(tokens)] for k in range(length)]
            found.append([*response, self.student_vocab.preferred_stop] if state % 3 else response)
        return found


def main(pair, output, batch, accumulation, kind="full"):
    data = Dataset.from_dict({"prompt": [f"the cat number {i}" for i in range(24)]})
    args = ESCDConfig(
        output_dir=output, max_steps=3, per_device_train_batch_size=int(batch), learning_rate=1e-2,
        gradient_accumulation_steps=int(accumulation), shuffle_dataset=False, logging_steps=1, save_strategy="no",
        report_to="none", disable_tqdm=True, gradient_checkpointing=False, tile_megabytes=1,
    )  # fmt: skip
    peft = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM") if kind == "lora" else None
    trainer = CannedTrainer(
        model=f"{pair}/student", teacher_model=f"{pair}/teacher", args=args, train_dataset=data, peft_config=peft
    )
    trainer.train()
    if trainer.is_world_process_zero():
        model = trainer.accelerator.unwrap_model(trainer.model)
        state = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
        save_file(state, f"{output}/trained.safetensors")
    trainer.accelerator.wait_for_everyone()
    trainer.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
