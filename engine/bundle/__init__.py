"""A bundle: the PromptKit files of one arena, loaded, validated and resolved.

`load_bundle` reads, `check_supported` refuses by name what the engine does not do yet. Knows the format; must not know providers' protocols,
queues or runs.
"""
