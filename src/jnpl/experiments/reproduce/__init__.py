"""The paper's figures and tables again: cells that train, pictures and tables of them, verdicts on its claims."""
