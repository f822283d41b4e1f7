"""Does learning suffer where minibatches are made of who came first?"""
