"""The version of this package, which is the version of the server it is made for."""

VERSION = "0.1.0"
