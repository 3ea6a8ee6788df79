// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training of models on several ranks, over every transport.
#pragma once

#include "tutti/core/config.hpp"  // first, because it refuses compilers that are too old

#include "tutti/training/cast.hpp"
#include "tutti/training/checkpoint.hpp"
#include "tutti/training/codecs.hpp"
#include "tutti/training/data_parallel.hpp"
#include "tutti/training/error_feedback.hpp"
#include "tutti/training/optimizers.hpp"
#include "tutti/training/pipeline.hpp"
#include "tutti/training/pipeline/registry.hpp"
#include "tutti/training/power_sgd.hpp"
#include "tutti/training/sharded_cross_entropy.hpp"
#include "tutti/training/sharded_data_parallel.hpp"
#include "tutti/training/sharded_dimension.hpp"
#include "tutti/training/sharded_embedding.hpp"
#include "tutti/training/tensor_parallel.hpp"
