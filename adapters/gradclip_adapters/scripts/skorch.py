"""Call the clip of skorch."""

from skorch.callbacks import GradientNormClipping

from .torch import make, make_parameters, make_sliced, make_strided, make_transposed, read_bfloat16


def clip(gradients, *, clip_norm, norm_type=2, form=list):
    parameters = make_parameters(gradients)
    GradientNormClipping(clip_norm, norm_type).on_grad_computed(None, enumerate(form(parameters)))
    return [parameter.grad for parameter in parameters], None


ENTRY_POINTS = {"skorch.callbacks.GradientNormClipping": clip}
