"""Does learning suffer if minibatches consist of the rows that arrived first?"""
