offset = size / ranks * rank + size % ranks * rank / ranks;   // one part per rank: all bytes, none twice
end = size / ranks * (rank + 1) + size % ranks * (rank + 1) / ranks;
