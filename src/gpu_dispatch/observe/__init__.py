"""What is known about a run, for people and programs that watch it.

``stats`` keeps the figures and makes snapshots; ``causes`` groups failures; ``throughput`` keeps rates and the ETA.
Views *pull* snapshots; nothing here calls a view.
"""
