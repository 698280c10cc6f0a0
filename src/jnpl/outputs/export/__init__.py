"""What a run found, and the model it left, in the forms that other programs read: one file per form."""
