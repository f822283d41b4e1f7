"""The paper's tables and figures again, a file each: ``artos bench paper-table-6``, ….

What two cores cannot carry is smaller, and the rows say so. Beside them stand the paper's figures.
"""
