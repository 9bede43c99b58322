"""The synthetic recipe: made-up flows whose posterior P(Malicious | prompt) is known exactly.

laws -> scenarios -> profiles, playbooks -> tiers -> cast -> mixture (flows), window (hosts) -> posterior ->
recipe (`generate`) -> build (public-mini). `perturb` makes variants of real items instead.
"""
