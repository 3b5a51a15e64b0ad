from bottega.lineage.rule import Rule

RULES: tuple[Rule, ...] = ()
