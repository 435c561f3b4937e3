"""A language model with vLLM over prompts, for gpu-dispatch: one engine per GPU, each kept full.

    pip install vllm
    gpu-dispatch run worker.py:LLMWorker prompts.txt --batch-size 256 -o out.jsonl          # each line is a prompt
    gpu-dispatch run worker.py:LLMWorker questions.jsonl --field question --batch-size 256 -o out.jsonl
    gpu-dispatch run worker.py:LLMWorker prompts.txt --setup model=./my-model --setup max_tokens=64 -o out.jsonl

vLLM schedules within a batch by itself: give it hundreds of prompts at a time.
"""

from gpu_dispatch import BaseWorker


class LLMWorker(BaseWorker):
    def setup(self, gpu_id, seed, model="Qwen/Qwen2.5-0.5B-Instruct", max_tokens=256, temperature=0.0, engine=None):
        """Called once in each worker process.

        model: a folder, or a name on the Hugging Face hub. engine: anything else that vllm.LLM() takes,
        as JSON: --setup 'engine={"gpu_memory_utilization": 0.8, "max_model_len": 4096}'
        """
        # Imported here and not above: the process that hands out the work needs no vLLM, and this one is
        # confined to its own GPU before vLLM looks for one.
        try:
            from vllm import LLM, SamplingParams
        except ImportError as missing:
            raise ImportError(f"{missing}; this worker needs: pip install vllm") from missing

        self.model = LLM(model=model, seed=seed, **(engine or {}))
        self.sampling = SamplingParams(max_tokens=max_tokens, temperature=temperature)

    def process_batch(self, prompts):
        """Called with several prompts, --batch-size of them; returns as many answers, in order."""
        chats = [[{"role": "user", "content": prompt}] for prompt in prompts]
        answers = self.model.chat(chats, self.sampling, use_tqdm=False)
        return [answer.outputs[0].text for answer in answers]
