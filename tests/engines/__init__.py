"""Tests of the techniques: the contract they share, their references, and worked examples."""
