"""When it runs: definitions, resources, run configuration, partitions, jobs, schedules, sensors, and the command line.

Add here what decides when a replay or a check is launched, and with which settings. What a run does belongs in replay/ and
quality/, and what exists in assets/: nothing in here touches a tuple.
"""
