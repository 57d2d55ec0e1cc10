"""`escd pair`: will a teacher and a student work together? Answered from their tokenizers, without weights."""
