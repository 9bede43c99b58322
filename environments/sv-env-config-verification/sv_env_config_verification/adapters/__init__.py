"""Adapters: one interface over OPA, KubeLinter and Semgrep. `toolbox.Toolbox` holds them all."""
