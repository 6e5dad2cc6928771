"""The study that the paper asks for: other models under PCQR, PCQR⁻¹ and their rivals."""
