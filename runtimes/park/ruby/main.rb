# Ruby opens this file before it can be parked; rubygems.rb puts the program in its place
