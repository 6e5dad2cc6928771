"""What a fit leaves behind: the predictions of every step, their calibration and their promises.

`fitted.Fitted` is the result for one behavior, and `joint.joint.Joint` holds one or several of
them. `law` has the prediction at one step, `curves` the tables of ranks and calibration curves,
`target_map` the correction for one target, `joint.asked` the answers about a target or goal,
`guarantee` the thresholds, `paths` the bands of later steps, and `kernels` the compiled answers.

House words: *learning* episodes are what models learn from; *assure* episodes are held out and
back the promises. The *remainder* is what a run still has to earn. A *rank* is where an outcome
fell in its predicted distribution, from 0 to 1, and an *excess* how far it ever was from the
predicted median. A *curve* calibrates a predicted probability at one step. A *target map* corrects
p for one target. A *rehearsal* predicts learning episodes as if they were new runs. A *block* is a
range of steps that share a model; the *law* of a step is a mixture of blocks. An outcome is
*decided* if arithmetic alone settles it. An episode that was *stopped* or cut off has no known
outcome.
"""
