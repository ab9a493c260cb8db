"""The intermediate representations: scalar formulas, their rewriting and their derivatives."""
