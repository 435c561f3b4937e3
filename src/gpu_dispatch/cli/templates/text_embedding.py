"""Text embeddings with sentence-transformers, for gpu-dispatch.

Run it:

    pip install sentence-transformers
    gpu-dispatch run worker.py:EmbeddingWorker texts.txt -o out.jsonl                     # each line is a text
    gpu-dispatch run worker.py:EmbeddingWorker articles.csv --field body -o out.jsonl
    gpu-dispatch run worker.py:EmbeddingWorker texts.txt --setup model=./my-model -o out.jsonl
"""

from gpu_dispatch import BaseWorker


class EmbeddingWorker(BaseWorker):
    def setup(self, gpu_id, seed, model="sentence-transformers/all-MiniLM-L6-v2", normalize=True):
        """Called once in each worker process. model: a folder, or a name on the Hugging Face hub."""
        # Imported here and not above: the process that hands out the work needs no PyTorch, and this one is
        # confined to its own GPU before PyTorch looks for one.
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as missing:
            raise ImportError(f"{missing}; this worker needs: pip install sentence-transformers") from missing

        self.model = SentenceTransformer(model, device=self.device)  # "cuda:0", this worker's own GPU, or "cpu"
        self.normalize = normalize  # vectors of length 1: their dot product is the cosine similarity

    def process_batch(self, texts):
        """Called with several texts; returns as many vectors, in order (lists in out.jsonl).

        How many texts is found by itself, from speed and memory; --batch-size 64 sets it.
        """
        vectors = self.model.encode(
            texts,
            batch_size=len(texts),
            normalize_embeddings=self.normalize,
            show_progress_bar=False,
        )
        return list(vectors)
