"""Speech to text with faster-whisper, for gpu-dispatch.

    pip install faster-whisper
    gpu-dispatch run worker.py:WhisperWorker 'audio/**/*.wav' -o out.jsonl
    gpu-dispatch run worker.py:WhisperWorker audio/ --setup model=large-v3 --setup language=en -o out.jsonl

To transcribe a folder into .txt, .srt and the like there is  gpu-dispatch transcribe  ready-made; this file is for
those who want something else done with the words.
"""

from gpu_dispatch import BaseWorker


class WhisperWorker(BaseWorker):
    def setup(self, gpu_id, seed, model="tiny", language=None, vad=True):
        """Called once in each worker process.

        model: a size (tiny … large-v3), or a folder with a model. language: None detects it in each file.
        vad: leave out what is not speech, in which Whisper hears things.
        """
        # Imported here and not above: the process that hands out the work needs no model, and this one is
        # confined to its own GPU before anything looks for one.
        try:
            from faster_whisper import WhisperModel
        except ImportError as missing:
            raise ImportError(f"{missing}; this worker needs: pip install faster-whisper") from missing

        on_gpu = self.device.startswith("cuda")
        self.model = WhisperModel(
            model,
            device="cuda" if on_gpu else "cpu",  # this worker sees one GPU, its own
            compute_type="float16" if on_gpu else "int8",
        )
        self.language = language
        self.vad = vad

    def process(self, path):
        """Called once per audio file. A file that cannot be read fails alone."""
        segments, info = self.model.transcribe(path, language=self.language, vad_filter=self.vad)
        segments = [{"start": s.start, "end": s.end, "text": s.text.strip()} for s in segments]  # the work is done here
        return {
            "language": info.language,
            "seconds": round(info.duration, 2),
            "text": " ".join(segment["text"] for segment in segments),
            "segments": segments,
        }
