"""Enrolment: one photo in, one avatar out; one step a file."""
