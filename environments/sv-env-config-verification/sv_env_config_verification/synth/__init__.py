"""The synthetic recipe: secure templates, mutated into configurations whose flaws are known exactly.

splits, names -> model, text -> kubernetes*, terraform* (templates, flaws, choices, unseen flaws) -> recipe
(`draft`) -> confirm (the tools agree) -> build (public-mini) and card.
"""
