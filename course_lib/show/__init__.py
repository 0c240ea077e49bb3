"""What a lesson shows: plots, controls, a recorder for any model's inside, views of attention.

Nothing is imported here: pictures need matplotlib, controls need ipywidgets, the recorder needs neither.
"""
