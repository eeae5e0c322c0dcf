"""Engines that exchange data between the devices of one run, behind one interface."""
