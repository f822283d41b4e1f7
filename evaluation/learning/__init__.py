"""Does learning suffer if minibatches are made of the rows that came first?"""
