"""Tencent's signatures and ciphertext, written from the documentation and not with wechatpy.

AES-256-CBC, the key's first 16 bytes as IV; 16 random bytes, the length of the message in four
bytes, the message, the receive id; padded to blocks of 32.
"""

import base64
import hashlib
import secrets
import struct

from Crypto.Cipher import AES

BLOCK = 32


def sign(*values: str) -> str:
    """SHA-1 of the sorted values, joined."""
    return hashlib.sha1("".join(sorted(values)).encode()).hexdigest()  # noqa: S324 - their scheme


def seal(text: str, aes_key: str, receive_id: str) -> str:
    """Encrypt a message."""
    key, message = base64.b64decode(aes_key + "="), text.encode()
    plain = secrets.token_bytes(16) + struct.pack(">I", len(message)) + message
    plain += receive_id.encode()
    padding = BLOCK - len(plain) % BLOCK
    cipher = AES.new(key, AES.MODE_CBC, key[:16])
    return base64.b64encode(cipher.encrypt(plain + bytes([padding]) * padding)).decode()


def seal_file(data: bytes, key: str) -> bytes:
    """Encrypt a file as an AI bot's files are."""
    secret = base64.b64decode(key + "=" * (-len(key) % 4))
    padding = BLOCK - len(data) % BLOCK
    cipher = AES.new(secret, AES.MODE_CBC, secret[:16])
    return cipher.encrypt(data + bytes([padding]) * padding)


def unseal(encrypted: str, aes_key: str, receive_id: str) -> str:
    """Decrypt an answer; ValueError if it is not what the platform would take."""
    key = base64.b64decode(aes_key + "=")
    plain = AES.new(key, AES.MODE_CBC, key[:16]).decrypt(base64.b64decode(encrypted))
    plain = plain[: -plain[-1]]
    (length,) = struct.unpack(">I", plain[16:20])
    if plain[20 + length :].decode() != receive_id:
        raise ValueError("another receive id stands in the answer")
    return plain[20 : 20 + length].decode()
