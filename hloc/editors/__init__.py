"""HLO text for editors and for whatever shows it in colours."""
