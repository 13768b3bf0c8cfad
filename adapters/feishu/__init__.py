"""Feishu and Lark: long connection or signed webhook in, Open API out."""
