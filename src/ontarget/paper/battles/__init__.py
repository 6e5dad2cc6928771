"""The paper's battles in two game engines: our own skirmish, and SMAX by JaxMARL's authors."""
