"""The paper's battles in two engines: our skirmish, and JaxMARL's SMAX, which is not ours."""
