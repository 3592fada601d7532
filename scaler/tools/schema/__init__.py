"""`scaler schema`: the JSON Schema of a document."""
